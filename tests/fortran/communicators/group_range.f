! ranks: 4
! A communicator of every second process, by ranges.
      PROGRAM GROUPR
      USE MPI
      IMPLICIT NONE
      INTEGER IERR, ME, WG, G, COMM, RANGES(3,2), N, S
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_GROUP(MPI_COMM_WORLD, WG, IERR)
      RANGES(:,1) = (/ 0, 0, 1 /)
      RANGES(:,2) = (/ 2, 3, 1 /)
      CALL MPI_GROUP_RANGE_EXCL(WG, 1, RANGES(1,2), G, IERR)
      CALL MPI_GROUP_SIZE(G, N, IERR)
      IF (N .NE. 2) ERROR STOP 'without two'
      CALL MPI_GROUP_FREE(G, IERR)
      CALL MPI_GROUP_RANGE_INCL(WG, 2, RANGES, G, IERR)
      CALL MPI_COMM_CREATE(MPI_COMM_WORLD, G, COMM, IERR)
      IF (ME .EQ. 1) THEN
         IF (COMM .NE. MPI_COMM_NULL) ERROR STOP 'not a member'
      ELSE
         CALL MPI_COMM_RANK(COMM, N, IERR)
         IF (N .NE. MAX(ME-1, 0)) ERROR STOP 'the rank'
         CALL MPI_ALLREDUCE(ME, S, 1, MPI_INTEGER, MPI_SUM, COMM, IERR)
         IF (S .NE. 5) ERROR STOP 'the sum'
         CALL MPI_COMM_FREE(COMM, IERR)
      END IF
      CALL MPI_GROUP_FREE(G, IERR)
      CALL MPI_GROUP_FREE(WG, IERR)
      IF (WG .NE. MPI_GROUP_NULL) ERROR STOP 'the freed group'
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
