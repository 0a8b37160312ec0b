! ranks: 1 2 4
! Logical operations: whether all, some or an odd number say so.
      PROGRAM LOGOPS
      USE MPI
      IMPLICIT NONE
      INTEGER IERR, ME, NP, I
      LOGICAL MINE(4), ALL_OF(4), SOME(4), ODD(4)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      MINE = (/ .TRUE., .FALSE., ME .EQ. 0, ME .NE. 0 /)
      CALL MPI_ALLREDUCE(MINE, ALL_OF, 4, MPI_LOGICAL, MPI_LAND,
     &                   MPI_COMM_WORLD, IERR)
      CALL MPI_ALLREDUCE(MINE, SOME, 4, MPI_LOGICAL, MPI_LOR,
     &                   MPI_COMM_WORLD, IERR)
      CALL MPI_ALLREDUCE(MINE, ODD, 4, MPI_LOGICAL, MPI_LXOR,
     &                   MPI_COMM_WORLD, IERR)
      IF (.NOT. ALL_OF(1) .OR. ALL_OF(2)) ERROR STOP 'all'
      IF (ALL_OF(3) .NEQV. NP .EQ. 1) ERROR STOP 'all are the first'
      IF (ALL_OF(4)) ERROR STOP 'all but the first'
      IF (.NOT. SOME(1) .OR. SOME(2)) ERROR STOP 'some'
      IF (.NOT. SOME(3)) ERROR STOP 'the first'
      IF (SOME(4) .NEQV. NP .GT. 1) ERROR STOP 'some but the first'
      IF (ODD(1) .NEQV. MOD(NP, 2) .EQ. 1) ERROR STOP 'odd'
      IF (ODD(2) .OR. .NOT. ODD(3)) ERROR STOP 'none and one'
      IF (ODD(4) .NEQV. MOD(NP-1, 2) .EQ. 1) ERROR STOP 'odd others'
C     The results are proper LOGICALs.
      DO I = 1, 4
         IF (COUNT((/ SOME(I), .NOT. SOME(I) /)) .NE. 1)
     &      ERROR STOP 'neither true nor false'
      END DO
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
