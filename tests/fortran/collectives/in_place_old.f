! ranks: 1 2 4
! MPI_IN_PLACE in fixed form, with mpif.h and its implicit interfaces.
      PROGRAM INPLC
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER MAXP
      PARAMETER (MAXP=16)
      INTEGER IERR, ME, NP, I, A(MAXP)
      DOUBLE PRECISION X(2)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      DO 10 I = 1, NP
         A(I) = -1
   10 CONTINUE
      A(ME+1) = 3*ME
      CALL MPI_ALLGATHER(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, A, 1,
     &                   MPI_INTEGER, MPI_COMM_WORLD, IERR)
      DO 20 I = 1, NP
         IF (A(I) .NE. 3*(I-1)) STOP 1
   20 CONTINUE
      X(1) = ME
      X(2) = 1
      CALL MPI_ALLREDUCE(MPI_IN_PLACE, X, 2, MPI_DOUBLE_PRECISION,
     &                   MPI_SUM, MPI_COMM_WORLD, IERR)
      IF (X(1) .NE. NP*(NP-1)/2 .OR. X(2) .NE. NP) STOP 2
      IF (ME .EQ. NP-1) THEN
         CALL MPI_GATHER(MPI_IN_PLACE, 1, MPI_INTEGER, A, 1,
     &                   MPI_INTEGER, NP-1, MPI_COMM_WORLD, IERR)
         DO 30 I = 1, NP - 1
            IF (A(I) .NE. 50 + I - 1) STOP 3
   30    CONTINUE
         IF (A(NP) .NE. 3*(NP-1)) STOP 4
      ELSE
         CALL MPI_GATHER(50 + ME, 1, MPI_INTEGER, A, 1, MPI_INTEGER,
     &                   NP-1, MPI_COMM_WORLD, IERR)
      END IF
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
